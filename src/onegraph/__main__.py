"""``python -m onegraph``."""

from onegraph.apps.cli import main

if __name__ == "__main__":
    main()
