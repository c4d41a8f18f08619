import torch

from zoo import architecture
from zoo.latents import read_pools, write_pools
from zoo.scenes import LEVELS, training_scene
from zoo.tokenizer import END, build, corpus, learn_merges

SIZES = dict.fromkeys(LEVELS, 3)


def _write(folder, scale=1):
    torch.manual_seed(0)
    vae = architecture.vae().eval()
    tokenizer = build(learn_merges(corpus(seed=0, per_level=20)), END)
    done = sum(write_pools(folder, vae, tokenizer, SIZES, seed=7, scale=scale))
    return tokenizer, done


def test_pools_hold_the_scenes_of_their_level(tmp_path):
    tokenizer, done = _write(tmp_path)
    pools = read_pools(tmp_path, SIZES)
    assert done == 3 * len(LEVELS)
    for level in LEVELS:
        assert pools[level].latents.shape == (3, 4, 16, 16)
        spoken = tokenizer.decode(pools[level].ids[1].tolist(), skip_special_tokens=True)
        assert spoken.replace(" ,", ",") == training_scene(level, 7, 1).caption


def test_a_file_that_was_lost_is_made_again_alike(tmp_path):
    _write(tmp_path)
    before = read_pools(tmp_path, SIZES)[2].latents
    next(tmp_path.glob("level2-*")).unlink()
    _write(tmp_path)
    assert torch.equal(before, read_pools(tmp_path, SIZES)[2].latents)


def test_larger_scenes_make_larger_latents_of_the_same_captions(tmp_path):
    _write(tmp_path / "1")
    _write(tmp_path / "2", scale=2)
    small, large = (read_pools(tmp_path / name, SIZES)[3] for name in ("1", "2"))
    assert large.latents.shape == (3, 4, 32, 32)
    assert torch.equal(small.ids, large.ids)
