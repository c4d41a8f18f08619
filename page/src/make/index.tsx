/** The view "Make": what is asked for on the left, what came of it on the right. */
import { useLayoutEffect } from "preact/hooks";
import "./make.css";
import "./results.css";
import { Composer } from "./compose/composer";
import { Compare, CompareBar } from "./results/compare";
import { Feed } from "./results/feed";
import { Lightbox } from "./results/lightbox";
import { followSome, readNewest, rest, watchWaiting } from "./state/jobs";
import { readServed } from "./state/served";

export default function Make() {
  useLayoutEffect(() => {
    void readServed();
    void readNewest();
    followSome();
    const stopWatching = watchWaiting();
    return () => {
      stopWatching();
      rest();
    };
  }, []);
  return (
    <div class="make">
      <Composer />
      <Feed />
      <Lightbox />
      <Compare />
      <CompareBar />
    </div>
  );
}
