/** A view whose code is fetched when it is first shown. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Notice } from "../components/notice";

type Fetch = () => Promise<{ default: ComponentType }>;

/** Show the component that `fetch` gives; `fetch` must be the same function at each call. */
export function Lazy({ fetch }: { fetch: Fetch }) {
  const [shown, setShown] = useState<{ Part?: ComponentType; hasFailed?: boolean }>({});
  useEffect(() => {
    let isCurrent = true;
    setShown({});
    fetch().then(
      (module) => isCurrent && setShown({ Part: module.default }),
      () => isCurrent && setShown({ hasFailed: true }),
    );
    return () => void (isCurrent = false);
  }, [fetch]);
  if (shown.hasFailed) return <Notice kind="bad">This part of the page could not be fetched. Load the page again.</Notice>;
  return shown.Part ? <shown.Part /> : <p class="quiet" role="status">Loading…</p>;
}
