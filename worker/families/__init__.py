"""Model families that the engine can run, each imported on first use."""

#: Family name -> "module:Class" of its runner.
FAMILIES: dict[str, str] = {
    "sdxl": "worker.families.sdxl:SdxlRunner",
    "sd": "worker.families.sd:SdRunner",
    "sd3": "worker.families.sd3:Sd3Runner",
    "flux": "worker.families.flux:FluxRunner",
    "noop": "worker.families.noop:NoopRunner",
}
