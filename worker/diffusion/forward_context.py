"""What one call of a model tells the blocks hooked into it of its rows, beside its own arguments.

Stock forward passes have no argument for it. Whoever calls the model gives it with the call, and
each hook is handed it, so that no block keeps anything of a call.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from worker.diffusion.stock import Argument, Module, hook_forward

P = TypeVar("P", bound="ContextPart")

#: Attribute of a model that holds its `HookedModel`.
_HOOKED = "_hooked_model"


class ContextPart:
    """What one kind of hooks needs of a call."""

    __slots__ = ()


class ForwardContext:
    """What all hooks of a model need of one call: at most one part of a kind."""

    def __init__(self, *parts: ContextPart) -> None:
        self._parts: dict[type[Any], Any] = {type(part): part for part in parts}

    @property
    def is_empty(self) -> bool:
        """Whether no hook is told anything."""
        return not self._parts

    def get(self, kind: type[P]) -> P | None:
        """Give the part of a kind; None if the call has none."""
        part: P | None = self._parts.get(kind)
        return part

    def only(self, kind: type[P]) -> P | None:
        """Give the part of a kind; None if the call has none, or any other."""
        return self.get(kind) if len(self._parts) == 1 else None

    def __or__(self, other: "ForwardContext") -> "ForwardContext":
        """Join both; of a kind that both have, the other's part counts."""
        if not self._parts or not other._parts:
            return self if self._parts else other
        return ForwardContext(*(self._parts | other._parts).values())


#: Of a call of which hooks need nothing.
NOTHING = ForwardContext()


class HookedModel:
    """One model and its hooks. Calls of one thread, one at a time."""

    def __init__(self) -> None:
        self.context = NOTHING  #: of the call at hand

    @classmethod
    def of(cls, model: Module) -> "HookedModel":
        """Give the one that all hooks of a model share."""
        if _HOOKED not in vars(model):
            setattr(model, _HOOKED, cls())
        found: HookedModel = getattr(model, _HOOKED)
        return found

    def hook(self, module: Module, name: str, forward: Callable[..., Any]) -> None:
        """Call `forward(context, original, module, ...)` in place of a module's own forward."""

        def told(whole: object, module: Module, *args: Argument, **kwargs: Argument) -> Argument:
            return forward(self.context, whole, module, *args, **kwargs)

        hook_forward(module, name, told)

    @contextmanager
    def running(self, context: ForwardContext) -> Iterator[None]:
        """Tell the hooks of one call of the model, or of a block in it, also what they know."""
        before, self.context = self.context, self.context | context
        try:
            yield
        finally:
            self.context = before
