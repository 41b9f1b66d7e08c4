"""Is a fix proven? Some checks say that nothing changed, others that no graph break is left."""

from __future__ import annotations

from onegraph.model import Check, Evidence, FixResult


def is_recount(check: Check) -> bool:
    """Whether a check counts graph breaks: one that is left is no fault of a repair that was made."""
    return check.name.startswith("recount") or check.name.startswith("fullgraph")


def same_results(evidence: Evidence) -> bool:
    """Whether everything that was compared agrees, and everything that had to be compared was."""
    compared = [check for check in evidence.checks if not is_recount(check)]
    return bool(compared) and all(check.passed for check in compared)


def met_behind(result: FixResult) -> int:
    """How many breaks showed only while others were mended: ``onegraph run`` can't count them."""
    before = {(site.kind, site.span) for site in result.before.sites}
    sites = {(repair.site.kind, repair.site.span) for repair in result.repairs if not repair.site.intended}
    return len(sites - before)


def near_zero(max_abs: float, max_rel: float) -> bool:
    """Whether a large relative difference can only be one at an element that is nearly zero."""
    return max_rel > 1e-2 and max_abs / max_rel < 1e-3


def verified(result: FixResult) -> bool:
    """Whether the mended program is proven to do the same; and to be one graph, where no site is left."""
    left = any(not site.intended for site in result.after.sites)
    recounted = all(check.passed for check in result.evidence.checks if is_recount(check))
    return same_results(result.evidence) and (recounted or left)
