"""Patches are undone exactly, and never over somebody else's."""

from onegraph.torch_private.patching import wrap


class Base:
    def speak(self):
        return "base"


class Child(Base):
    pass


def louder(plain):
    return lambda self: plain(self).upper()


def test_an_inherited_attribute_is_inherited_again():
    patch = wrap(Child, "speak", louder)
    assert Child().speak() == "BASE" and Base().speak() == "base"
    patch.undo()
    assert "speak" not in vars(Child) and Child().speak() == "base"


def test_a_patch_put_on_top_stays():
    original = Base.speak
    ours = wrap(Base, "speak", louder)
    theirs = wrap(Base, "speak", lambda plain: lambda self: plain(self) + "!")
    ours.undo()
    assert Base().speak() == "BASE!"
    theirs.undo()
    ours.undo()
    assert Base.speak is original
