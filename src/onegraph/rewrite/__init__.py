"""Text, code objects and measured facts: everything that a repair needs to turn one text into the next."""
