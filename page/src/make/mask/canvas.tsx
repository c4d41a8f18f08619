/** The picture with its mask over it: painted by mouse, pen, finger or keys; two fingers move and zoom. */
import { useEffect, useRef, useState } from "preact/hooks";
import { act, draw, play, type Act, type Painting, type Point, type Stroke } from "./painting";

interface Props {
  picture: { url: string; width: number; height: number };
  painting: Painting;
  tool: Stroke["kind"];
  /** Width of the brush, in pixels of the picture. */
  size: number;
  /** Pixels of the screen for each of the picture. */
  zoom: number;
  onPaint: (painting: Painting) => void;
  onZoom: (factor: number) => void;
}

/** Opaque here; the style sheet makes the layer translucent. */
const COLOUR = "#e2552b";

export function MaskCanvas({ picture, painting, tool, size, zoom, onPaint, onZoom }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const stroke = useRef<Stroke | null>(null);
  const fingers = useRef(new Map<number, Point>());
  const [cursor, setCursor] = useState<Point | null>(null);
  const { width, height } = picture;

  useEffect(() => play(canvas.current!.getContext("2d", { willReadFrequently: true })!, painting.done, COLOUR), [painting, width, height]);

  const at = (event: PointerEvent): Point => {
    const box = canvas.current!.getBoundingClientRect();
    return { x: ((event.clientX - box.left) / box.width) * width, y: ((event.clientY - box.top) / box.height) * height };
  };
  const show = (next: Act) => draw(canvas.current!.getContext("2d", { willReadFrequently: true })!, next, COLOUR);
  const drop = () => {
    stroke.current = null;
    play(canvas.current!.getContext("2d", { willReadFrequently: true })!, painting.done, COLOUR);
  };

  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    canvas.current!.setPointerCapture(event.pointerId);
    fingers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (fingers.current.size > 1) return drop(); // a second finger: they move the picture
    stroke.current = { kind: tool, size, points: [at(event)] };
    show(stroke.current);
  };
  const move = (event: PointerEvent) => {
    setCursor(event.pointerType === "touch" ? null : at(event));
    if (fingers.current.size > 1) return pinch(event);
    if (!stroke.current) return;
    const from = stroke.current.points.at(-1)!;
    const more = event.getCoalescedEvents?.() ?? [];
    const points = (more.length ? more : [event]).map(at);
    stroke.current.points.push(...points);
    show({ ...stroke.current, points: [from, ...points] });
  };
  const up = (event: PointerEvent) => {
    fingers.current.delete(event.pointerId);
    if (stroke.current) onPaint(act(painting, stroke.current));
    stroke.current = null;
  };
  const cancel = (event: PointerEvent) => {
    fingers.current.delete(event.pointerId);
    drop();
  };

  const pinch = (event: PointerEvent) => {
    const before = [...fingers.current.values()];
    const was = fingers.current.get(event.pointerId);
    if (!was) return;
    fingers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const now = [...fingers.current.values()];
    canvas.current!.closest(".mask-scroll")!.scrollBy((was.x - event.clientX) / 2, (was.y - event.clientY) / 2);
    const [apart, then] = [distance(now), distance(before)];
    if (then > 0 && Math.abs(apart - then) > 0.5) onZoom(apart / then);
  };

  const keys = (event: KeyboardEvent) => {
    const here = cursor ?? { x: width / 2, y: height / 2 };
    const step = MOVES[event.key];
    if (step) {
      event.preventDefault();
      const by = event.altKey ? 1 : Math.max(1, size / 2);
      const there = { x: clamp(here.x + step.x * by, width), y: clamp(here.y + step.y * by, height) };
      setCursor(there);
      if (event.shiftKey) onPaint(act(painting, { kind: tool, size, points: [here, there] }));
    } else if (event.key === " ") {
      event.preventDefault();
      setCursor(here);
      onPaint(act(painting, { kind: tool, size, points: [here] }));
    }
  };

  return (
    <div class="mask-stage" style={{ width: `${width * zoom}px`, height: `${height * zoom}px` }}>
      <img src={picture.url} alt="" draggable={false} />
      <canvas
        ref={canvas} width={width} height={height} tabIndex={0} role="img"
        aria-label="Mask over the picture. Arrow keys move the brush, Space paints, Shift with an arrow key paints along."
        onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={cancel}
        onPointerLeave={() => setCursor(null)} onKeyDown={keys}
      />
      {cursor && <span class="mask-cursor" style={{ left: `${cursor.x * zoom}px`, top: `${cursor.y * zoom}px`, width: `${size * zoom}px`, height: `${size * zoom}px` }} />}
    </div>
  );
}

const MOVES: Record<string, Point> = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: -1 },
  ArrowDown: { x: 0, y: 1 },
};

function distance([a, b]: Point[]): number {
  return a && b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
}

function clamp(value: number, most: number): number {
  return Math.min(Math.max(value, 0), most);
}
