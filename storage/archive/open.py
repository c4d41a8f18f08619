"""Open the archive that the settings name, if they name one; SQLAlchemy is loaded only then."""

from core.settings import Settings
from storage.archive.archive import NO_ARCHIVE, Archive


def open_archive(settings: Settings) -> Archive:
    """Open the archive of this service. Nothing is sent until it is asked.

    Raises:
        ConfigurationError: its address cannot be read.
    """
    url = settings.archive_url.get_secret_value()
    if not url:
        return NO_ARCHIVE
    from storage.archive.connect import open_engine
    from storage.archive.sql import SqlArchive

    return SqlArchive(open_engine(url))
