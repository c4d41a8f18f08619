/** The form: what the image shows, and how it is made. */
import { Sparkles } from "lucide";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "../../components/button";
import { Field } from "../../components/field";
import { Notice } from "../../components/notice";
import { change, draft, faults } from "../state/draft";
import { sendFault, sending, submit } from "../state/send";
import { servedFault } from "../state/served";
import { Leftover } from "./leftover";
import { Settings } from "./settings";

export function Composer() {
  const form = useRef<HTMLFormElement>(null);
  const send = async (event?: Event) => {
    event?.preventDefault();
    const back = document.activeElement as HTMLElement | null;
    if (await submit()) return back?.focus();
    form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  };
  return (
    <form ref={form} class="composer" aria-label="New image" noValidate onSubmit={send} onKeyDown={(event) => isSend(event) && send(event)}>
      <div class="composer-body">
        {servedFault.value && <Notice kind="bad">{servedFault.value}</Notice>}
        <Prompt />
        <Settings />
      </div>
      <div class="composer-foot">
        <Leftover />
        {sendFault.value && <Notice kind="bad">{sendFault.value}</Notice>}
        <Button type="submit" icon={Sparkles} aria-busy={sending.value > 0}>{sending.value ? "Sending…" : "Make it"}</Button>
        <span class="quiet small send-hint"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span>
      </div>
    </form>
  );
}

function Prompt() {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  return (
    <Field label="Prompt" fault={faults.value.get("prompt")}>
      <textarea ref={area} name="prompt" class="prompt" rows={4} placeholder="A large blue star above a small green square" value={draft.value.prompt} onInput={(event) => change({ prompt: event.currentTarget.value })} />
    </Field>
  );
}

function isSend(event: KeyboardEvent): boolean {
  return event.key === "Enter" && (event.ctrlKey || event.metaKey);
}
