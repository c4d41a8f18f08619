"""Tokenizers of tiny models: a token a character."""

from transformers import CLIPTokenizer, T5TokenizerFast


def make_tokenizer() -> CLIPTokenizer:
    """CLIP's byte-level vocabulary without merges: one token a character."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    chars = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
    words = [*chars, *(char + "</w>" for char in chars), "<|startoftext|>", "<|endoftext|>"]
    vocab = {word: index for index, word in enumerate(words)}
    return CLIPTokenizer(vocab=vocab, merges=[], model_max_length=77)


def make_t5_tokenizer() -> T5TokenizerFast:
    """Three special tokens, then a piece a character."""
    letters = [(chr(code), -2.0) for code in range(ord("a"), ord("z") + 1)]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -1.0), *letters]
    return T5TokenizerFast(vocab=pieces, extra_ids=0)
