/** Paint which part of a picture is made anew. */
import { Brush, Contrast, Eraser, Maximize, Redo2, Trash2, Undo2, ZoomIn, ZoomOut } from "lucide";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button, IconButton } from "../../components/button";
import { Dialog } from "../../components/dialog";
import { RangeField } from "../../components/range_field";
import { useBlobUrl } from "../../components/use_blob_url";
import type { Picture } from "../state/draft";
import "./mask.css";
import { MaskCanvas } from "./canvas";
import { act, BLANK, isCovered, redo, startFrom, undo, written, type Painting, type Stroke } from "./painting";

interface Props {
  picture: Picture;
  mask: Blob | null;
  onDone: (mask: Blob | null) => void;
  onClose: () => void;
}

const ZOOM_STEP = 1.4;

export function MaskEditor({ picture, mask, onDone, onClose }: Props) {
  const { width, height } = picture;
  const url = useBlobUrl(picture.blob);
  const [painting, setPainting] = useState<Painting>(BLANK);
  const [tool, setTool] = useState<Stroke["kind"]>("brush");
  const [size, setSize] = useState(Math.max(1, Math.round(Math.min(width, height) / 6)));
  const scroll = useRef<HTMLDivElement>(null);
  const { zoom, zoomBy, fit } = useZoom(scroll, width, height);

  useEffect(() => {
    if (mask) void startFrom(mask).then((start) => setPainting(act(BLANK, start)));
  }, []);

  const done = async () => onDone(isCovered(painting.done, width, height) ? await written(painting.done, width, height) : null);
  const keys = (event: KeyboardEvent) => {
    const isWithCtrl = event.ctrlKey || event.metaKey;
    const name = (isWithCtrl ? "ctrl+" : "") + (isWithCtrl && event.shiftKey ? "shift+" : "") + event.key.toLowerCase();
    const does: Record<string, () => void> = {
      b: () => setTool("brush"),
      e: () => setTool("eraser"),
      i: () => setPainting(act(painting, { kind: "invert" })),
      "[": () => setSize(Math.max(1, Math.round(size / 1.25))),
      "]": () => setSize(Math.min(largest, Math.max(size + 1, Math.round(size * 1.25)))),
      "+": () => zoomBy(ZOOM_STEP),
      "-": () => zoomBy(1 / ZOOM_STEP),
      "0": fit,
      "ctrl+z": () => setPainting(undo(painting)),
      "ctrl+shift+z": () => setPainting(redo(painting)),
      "ctrl+y": () => setPainting(redo(painting)),
      "ctrl+enter": () => void done(),
    };
    if (!does[name]) return;
    event.preventDefault();
    does[name]();
  };
  const largest = Math.round(Math.max(width, height) / 2);
  const turn = (event: WheelEvent) => {
    if (!event.ctrlKey) return; // without, it scrolls
    event.preventDefault();
    zoomBy(event.deltaY < 0 ? 1.1 : 1 / 1.1);
  };

  return (
    <Dialog title="Paint what is made anew" size="wide" onClose={onClose} onKeyDown={keys}>
      <div class="mask">
        <div class="mask-tools" role="toolbar" aria-label="Mask">
          <IconButton icon={Brush} label="Brush (B)" aria-pressed={tool === "brush"} onClick={() => setTool("brush")} />
          <IconButton icon={Eraser} label="Eraser (E)" aria-pressed={tool === "eraser"} onClick={() => setTool("eraser")} />
          <RangeField label="Size" min={1} max={largest} step={1} value={size} onChange={setSize} />
          <span class="divide" />
          <IconButton icon={Undo2} label="Undo (Ctrl+Z)" disabled={!painting.done.length} onClick={() => setPainting(undo(painting))} />
          <IconButton icon={Redo2} label="Redo (Ctrl+Y)" disabled={!painting.undone.length} onClick={() => setPainting(redo(painting))} />
          <IconButton icon={Contrast} label="Invert (I)" onClick={() => setPainting(act(painting, { kind: "invert" }))} />
          <IconButton icon={Trash2} label="Clear" onClick={() => setPainting(act(painting, { kind: "clear" }))} />
          <span class="divide" />
          <IconButton icon={ZoomOut} label="Smaller (-)" onClick={() => zoomBy(1 / ZOOM_STEP)} />
          <IconButton icon={Maximize} label="All of it (0)" onClick={fit} />
          <IconButton icon={ZoomIn} label="Larger (+)" onClick={() => zoomBy(ZOOM_STEP)} />
        </div>
        <div class="mask-scroll" ref={scroll} onWheel={turn}>
          {url && <MaskCanvas picture={{ url, width, height }} painting={painting} tool={tool} size={size} zoom={zoom} onPaint={setPainting} onZoom={zoomBy} />}
        </div>
        <footer class="dialog-foot">
          <p class="quiet small">What is coloured is made anew, the rest is kept.</p>
          <Button look="plain" onClick={onClose}>Cancel</Button>
          <Button onClick={() => void done()}>Use this mask</Button>
        </footer>
      </div>
    </Dialog>
  );
}

/** How large the picture is shown: all of it at first. The middle stays in the middle. */
function useZoom(scroll: { current: HTMLDivElement | null }, width: number, height: number) {
  const [zoom, setZoom] = useState(1);
  const fit = () => {
    const box = scroll.current!;
    setZoom(Math.min((box.clientWidth - 32) / width, (box.clientHeight - 32) / height));
  };
  useLayoutEffect(fit, []);
  const zoomBy = (factor: number) => {
    const box = scroll.current!;
    const middle = { x: (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth, y: (box.scrollTop + box.clientHeight / 2) / box.scrollHeight };
    setZoom((now) => Math.min(Math.max(now * factor, 0.1), 40));
    requestAnimationFrame(() => box.scrollTo(middle.x * box.scrollWidth - box.clientWidth / 2, middle.y * box.scrollHeight - box.clientHeight / 2));
  };
  return { zoom, zoomBy, fit };
}
