"""One command a module; ``apps.cli`` lists them."""
