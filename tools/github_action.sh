#!/usr/bin/env bash
# The step of action.yml: one run of the gate, its report in every form that GitHub shows.
# Reads TARGET, OPTIONS and FOLDER; exits as `onegraph check` does.
set -uo pipefail
mkdir -p "$FOLDER"
json="$FOLDER/onegraph.json"
rm -f "$json"

# Options and target are words of a command line, as a user would type them.
read -r -a options <<<"${OPTIONS:-}"
read -r -a target <<<"${TARGET:-}"
python -m onegraph check ${options[@]+"${options[@]}"} --format json -o "$json" ${target[@]+"${target[@]}"}
code=$?
echo "exit-code=$code" >>"${GITHUB_OUTPUT:-/dev/null}"

if [ -f "$json" ]; then
    python -m onegraph report "$json"
    python -m onegraph report "$json" --format github
    python -m onegraph report "$json" --format markdown >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
    python -m onegraph report "$json" --format sarif -o "$FOLDER/onegraph.sarif"
    python -m onegraph report "$json" --format html -o "$FOLDER/onegraph.html"
else
    echo "::error title=onegraph::no report was written (exit code $code)"
fi
exit "$code"
