/** What the service says again and again, asked for while somebody looks. */
import { useEffect, useRef, useState } from "preact/hooks";
import { sentence } from "./problem";

export interface Polled<T> {
  /** The last answer; undefined: there was none yet. */
  data?: T;
  /** Why the last request failed; null: it did not. */
  fault: unknown;
  /** Ask now. */
  again: () => void;
}

/** Ask at once and every so many milliseconds, unless the page is hidden or this is paused. */
export function usePolled<T>(ask: () => Promise<T>, everyMs: number, isPaused = false): Polled<T> {
  const [state, setState] = useState<{ data?: T; fault: unknown }>({ fault: null });
  const asked = useRef(ask);
  asked.current = ask;
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isOver = false;
    let isAsking = false;
    let timer = 0;
    const look = async () => {
      clearTimeout(timer);
      if (isAsking) return;
      if (document.visibilityState === "visible") {
        isAsking = true;
        try {
          const data = await asked.current();
          if (!isOver) setState({ data, fault: null });
        } catch (fault) {
          if (!isOver) setState(({ data }) => ({ data, fault }));
        }
        isAsking = false;
      }
      if (!isOver && !isPaused) timer = window.setTimeout(look, everyMs);
    };
    const resume = () => void (document.visibilityState === "visible" && !isPaused && look());
    document.addEventListener("visibilitychange", resume);
    look();
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", resume);
    };
  }, [everyMs, isPaused, turn]);
  return { ...state, again: () => setTurn((before) => before + 1) };
}

/** Say why, if something failed. */
export function faultOf(...polled: Polled<unknown>[]): string | null {
  const failed = polled.find(({ fault }) => fault !== null);
  return failed ? sentence(failed.fault) : null;
}
