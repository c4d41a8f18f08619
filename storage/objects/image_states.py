"""Name the objects that say where the images of unfinished jobs stand. Pure."""

from dataclasses import dataclass

#: Where all of them lie, beside the images.
PREFIX = "states"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StateKey:
    """Where one image of a job stood, as one claim left it."""

    tenant: str
    job_id: str
    fence: int  #: of the claim: nobody else writes under it
    index: int  #: which image of the job

    def __str__(self) -> str:
        return f"{folder_of(self.tenant, self.job_id)}/{self.fence}/{self.index}.state"

    @classmethod
    def read(cls, key: str) -> "StateKey | None":
        """Read the name of an object; None: it is none of these."""
        match key.split("/"):
            case [prefix, tenant, job_id, fence, name] if prefix == PREFIX and fence.isdecimal():
                index, _, ending = name.partition(".")
                if index.isdecimal() and ending == "state":
                    found = cls(tenant=tenant, job_id=job_id, fence=int(fence), index=int(index))
                    return found if str(found) == key else None
        return None


def job_of(key: str) -> str:
    """Give the id of the job that an object below `PREFIX` belongs to."""
    return [*key.split("/"), "", ""][2]


def folder_of(tenant: str, job_id: str) -> str:
    """Name the folder of one job's states."""
    return f"{PREFIX}/{tenant}/{job_id}"
