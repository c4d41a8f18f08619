"""Load the trained prompt classifier, or report why none can be used."""

from collections.abc import Callable

from classifier.encoder.encoder import SentenceEncoder
from classifier.trained import TrainedClassifier
from core.errors import AtelierError, ConfigurationError
from core.levels.level import Level
from core.log import get_logger
from core.settings import Settings
from scheduler.profile.profile import Profile
from scheduler.routing.classify import Classifier, OneClass

log = get_logger(__name__)


def open_classifier(
    settings: Settings, profile: Profile, encoder: Callable[[], SentenceEncoder]
) -> tuple[Classifier, Profile]:
    """Open the classifier for the models that are served, and tell the profile its classes.

    A scheduler without one places as well, every prompt like any other.

    Raises:
        ConfigurationError: the settings name a classifier, and it cannot be used.
    """
    try:
        classifier = TrainedClassifier(settings.classifier_path, encoder())
        refuse_other_models(classifier, profile)
    except (AtelierError, ImportError) as error:
        if settings.classifier_dir is not None:
            raise ConfigurationError(f"ATELIER_CLASSIFIER_DIR: {error}") from error
        log.warning("one_class_of_prompts", reason=str(error))
        return OneClass(), profile
    log.info("classifies", classes=len(classifier.classes), labels=classifier.card.labels)
    return classifier, profile.with_classes(classifier.card.classes)


def refuse_other_models(classifier: TrainedClassifier, profile: Profile) -> None:
    """Look whether a classifier learned from images of the models that are served here.

    Raises:
        ConfigurationError: a model is not served, or not by these weights.
    """
    known, measured = classifier.card.origin.digests, profile.measured.about.digests
    for model in sorted({Level.read(name).model for name in classifier.levels}):
        if model not in profile.models:
            raise ConfigurationError(f"the classifier knows {model}, which is not served")
        if known.get(model) != measured.get(model):
            other = "the classifier learned from other weights than the profile measured"
            raise ConfigurationError(f"{model}: {other}")
