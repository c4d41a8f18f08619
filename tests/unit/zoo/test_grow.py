import torch

from zoo.family import FAMILY
from zoo.grow import deepen, prune, unlearn_text


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


def test_a_model_that_unlearned_its_text_encoders_ignores_what_it_is_told():
    torch.manual_seed(0)
    unet = FAMILY["shapes-m"].unet()
    unlearn_text(unet)
    noisy, times = torch.randn(1, 4, 16, 16).expand(2, -1, -1, -1), torch.tensor([300, 300])
    context, pooled = torch.randn(2, 8, 256), torch.randn(2, 128)
    sizes = torch.full((2, 6), 64.0)
    with torch.no_grad():
        added = {"text_embeds": pooled, "time_ids": sizes}
        first, second = unet(noisy, times, context, added_cond_kwargs=added).sample
    torch.testing.assert_close(first, second)


def test_a_deepened_model_that_is_pruned_is_what_it_was():
    torch.manual_seed(0)
    small, deep, again = (FAMILY[name].unet() for name in ("shapes-m", "shapes-xl", "shapes-m"))
    deepen(small, deep)
    prune(deep, again)
    pairs = zip(small.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
