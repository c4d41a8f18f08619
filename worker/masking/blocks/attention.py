"""Attention whose queries are a subset of tokens and whose keys and values are all tokens.

The stock processor runs as it is. It is handed an attention that projects keys and values from
other states than those it is given, so nothing of its arithmetic is copied.
"""

from collections.abc import Callable, Mapping

from torch import Tensor

from worker.diffusion.stock import Argument, Module


class Attention:
    """An attention in front of another, which it is but for what it says itself."""

    def __init__(self, attention: Module) -> None:
        self._attention = attention

    def __getattr__(self, name: str) -> Argument:
        return getattr(self._attention, name)


class Captioned(Attention):
    """An attention that is answered by the whole caption, though few of its tokens may ask."""

    def __init__(self, attention: Module, captions: Tensor | None = None) -> None:
        """Take normed states of the caption, [R, T, C], if few of them ask."""
        super().__init__(attention)
        self._captions = captions

    def add_k_proj(self, asking: Tensor) -> Tensor:
        """Project keys of the caption. Shapes: [R, 1 or T, C] -> [R, T, C]."""
        keys: Tensor = self._attention.add_k_proj(self._caption(asking))
        return keys

    def add_v_proj(self, asking: Tensor) -> Tensor:
        """Project values of the caption. Shapes: [R, 1 or T, C] -> [R, T, C]."""
        values: Tensor = self._attention.add_v_proj(self._caption(asking))
        return values

    def _caption(self, asking: Tensor) -> Tensor:
        return asking if self._captions is None else self._captions


class Widened(Captioned):
    """An attention that is answered by all tokens of its rows, whichever ask."""

    def __init__(self, attention: Module, states: Tensor, captions: Tensor | None = None) -> None:
        """Take normed states: [R, L, C] of the picture, and [R, T, C] if few of the caption ask."""
        super().__init__(attention, captions)
        self._states = states

    def to_k(self, asking: Tensor) -> Tensor:
        """Project keys. Shapes: [R, M, C] -> [R, L, C]."""
        del asking
        keys: Tensor = self._attention.to_k(self._states)
        return keys

    def to_v(self, asking: Tensor) -> Tensor:
        """Project values. Shapes: [R, M, C] -> [R, L, C]."""
        del asking
        values: Tensor = self._attention.to_v(self._states)
        return values


#: Makes of an attention one that is answered by other tokens.
Widen = Callable[[Module], Attention]


#: The argument of a block that its attentions are given on, and what of it says who answers each
#: of them, by its name.
JOINT_KWARGS, WIDEN = "joint_attention_kwargs", "widen"


class KeysOfAll:
    """Attention processor in front of the stock one, which may be told who answers."""

    def __init__(self, stock: Argument, name: str) -> None:
        """Stand before the processor of the attention with this name in its block."""
        self._stock = stock
        self._name = name

    def __call__(
        self,
        attn: Module,
        hidden_states: Tensor,
        *args: Argument,
        widen: Mapping[str, Widen] | None = None,
        **kwargs: Argument,
    ) -> Argument:
        """Attend from the tokens given. Shapes: picture [R, M, C]."""
        asked = attn if widen is None else widen[self._name](attn)
        return self._stock(asked, hidden_states, *args, **kwargs)

    @classmethod
    def install(cls, block: Module) -> None:
        """Put one in front of the processor of each attention of a block."""
        for name, attention in attentions(block).items():
            attention.set_processor(cls(attention.processor, name))


def attentions(block: Module) -> dict[str, Module]:
    """Name the attentions of a block: SD3.5 has a second one, for the picture alone."""
    own = getattr(block, "attn2", None)
    return {"attn": block.attn} | ({} if own is None else {"attn2": own})
