import torch

from zoo import architecture
from zoo.latents import pixels
from zoo.scenes import draw, held_out
from zoo.vae import VaeRecipe, VaeTraining, quieten, set_scale

RECIPE = VaeRecipe(steps=4, decay_steps=1, warmup_steps=1, batch=2, whole_batch=1)


def _vae():
    torch.manual_seed(0)
    vae = architecture.vae()
    quieten(vae)
    return vae


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    whole = VaeTraining(_vae(), RECIPE)
    losses = [whole.advance() for _ in range(4)]
    first = VaeTraining(_vae(), RECIPE)
    head = [first.advance() for _ in range(2)]
    first.save(tmp_path / "half.pt")
    second = VaeTraining(_vae(), RECIPE)
    second.load(tmp_path / "half.pt")
    assert head + [second.advance() for _ in range(2)] == losses
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name


def test_training_the_decoder_alone_keeps_the_latents():
    images = pixels([draw(scene) for scene in held_out(3, 2, seed=0)])
    training = VaeTraining(_vae(), VaeRecipe(steps=2, batch=2, is_decoder_only=True))
    before, old = _mean(training.model, images), _reconstruct(training.model, images)
    training.advance()
    assert torch.equal(before, _mean(training.model, images))
    assert not torch.equal(old, _reconstruct(training.model, images))


@torch.no_grad()
def _mean(vae, images):
    return vae.encode(images).latent_dist.mean


@torch.no_grad()
def _reconstruct(vae, images):
    return vae.decode(vae.encode(images).latent_dist.mean).sample.clamp(-1, 1)


def test_scaled_latents_have_unit_spread():
    vae = _vae().eval()
    set_scale(vae, count=4)
    images = pixels([draw(scene) for level in (1, 2, 3, 4, 5) for scene in held_out(level, 4, 1)])
    with torch.no_grad():
        latents = vae.encode(images).latent_dist.mean * vae.config.scaling_factor
    assert 0.5 < latents.std().item() < 2.0
