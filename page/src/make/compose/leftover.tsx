/** What the service said of fields that the form does not show. */
import { Notice } from "../../components/notice";
import { faults } from "../state/draft";

const SHOWN = new Set([
  ...["prompt", "negative_prompt", "model", "width", "height", "steps", "guidance", "seed", "n", "quality"],
  ...["deadline_s", "application", "scheduler", "template", "image", "mask", "strength", "loras", "controls"],
]);

export function Leftover() {
  const left = [...faults.value].filter(([path]) => !SHOWN.has(path.split(".")[0]!));
  if (!left.length) return null;
  return <Notice kind="bad">{left.map(([path, detail]) => `${path} ${detail}`).join(". ")}</Notice>;
}
