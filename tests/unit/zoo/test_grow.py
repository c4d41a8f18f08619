import torch

from zoo.family import FAMILY
from zoo.grow import deepen


def test_a_deepened_model_draws_the_same():
    torch.manual_seed(0)
    small, deep = FAMILY["shapes-m"].unet(), FAMILY["shapes-xl"].unet()
    deepen(small, deep)
    noisy, times, context = (
        torch.randn(2, 4, 16, 16),
        torch.tensor([300, 700]),
        torch.randn(2, 8, 256),
    )
    added = {"text_embeds": torch.randn(2, 128), "time_ids": torch.randn(2, 6)}
    with torch.no_grad():
        before = small(noisy, times, context, added_cond_kwargs=added).sample
        after = deep(noisy, times, context, added_cond_kwargs=added).sample
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)
