/** All jobs of the person, newest first, as cards; more come as the end is neared. */
import { Images } from "lucide";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "../../components/button";
import { Empty } from "../../components/empty";
import { Notice } from "../../components/notice";
import { cursor, isReading, listFault, order, readMore } from "../state/jobs";
import { Card } from "./card";

export function Feed() {
  return (
    <section class="feed" aria-label="Your images">
      {listFault.value && <Notice kind="bad">{listFault.value}</Notice>}
      <ul class="grid">{order.value.map((id) => <Card key={id} id={id} />)}</ul>
      {order.value.length === 0 && cursor.value === null && (
        <Empty icon={Images} title="Your images appear here">Say what the image shows, and press Make it. What you made stays until you delete it.</Empty>
      )}
      {cursor.value && <More />}
    </section>
  );
}

/** Read on when this comes into sight, or is pressed. */
function More() {
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const seen = new IntersectionObserver((entries) => entries.some((each) => each.isIntersecting) && void readMore(), { rootMargin: "400px" });
    seen.observe(end.current!);
    return () => seen.disconnect();
  }, [cursor.value]);
  return (
    <div ref={end} class="feed-end">
      <Button look="plain" aria-busy={isReading.value} onClick={() => void readMore()}>Show more</Button>
    </div>
  );
}
