"""What torch.compile captures although the compiled program then does something else than eager.

While onegraph mends, and in what it compiles, each of these is a break of the graph of its own type.
"""

ENVIRONMENT = "an environment variable that is held fast"
HANDLER = "an except that is never entered"
RANDOM = "random numbers out of another stream"
LIMIT = "a full deque that grows on"
