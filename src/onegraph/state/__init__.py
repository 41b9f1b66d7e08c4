"""Running a program without leaving a trace in it: snapshot, restore, and what one call did."""
