"""The HTML report: parts of the page as functions from rows to markup, and its style and script as files."""
