/** The form: what the image shows, and how it is made. */
import { Code as CodeIcon, Sparkles } from "lucide";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button, IconButton } from "../../components/button";
import { Field } from "../../components/field";
import { More } from "../../components/more";
import { Notice } from "../../components/notice";
import { change, draft, faults } from "../state/draft";
import { sendFault, sending, submit } from "../state/send";
import { servedFault } from "../state/served";
import { sentence } from "../../api/problem";
import { say } from "../../components/toast";
import { use } from "../state/pictures";
import { Code } from "./code";
import { Controls } from "./controls";
import { Leftover } from "./leftover";
import { Loras } from "./loras";
import { PictureInput } from "./picture";
import { Settings } from "./settings";

export function Composer() {
  const form = useRef<HTMLFormElement>(null);
  const [isShowingCode, setShowingCode] = useState(false);
  useLayoutEffect(() => {
    addEventListener("paste", paste);
    return () => removeEventListener("paste", paste);
  }, []);
  const send = async (event: Event) => {
    event.preventDefault();
    if (document.querySelector("dialog[open]")) return; // Enter in a dialog that the form holds
    const back = document.activeElement as HTMLElement | null;
    if (await submit()) {
      if (matchMedia("(max-width: 60rem)").matches) say("On its way: it appears below");
      return back?.focus({ preventScroll: true });
    }
    form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key !== "Enter") return;
    const isSend = event.ctrlKey || event.metaKey;
    const isInText = event.target instanceof HTMLTextAreaElement;
    if (event.repeat && (isSend || !isInText)) event.preventDefault(); // a key that is held sends once
    else if (isSend) void send(event);
  };
  return (
    <form ref={form} class="composer" aria-label="New image" noValidate onSubmit={send} onKeyDown={keys}>
      <div class="composer-body">
        {servedFault.value && <Notice kind="bad">{servedFault.value}</Notice>}
        <Prompt />
        <PictureInput />
        <Settings />
        <Adapters />
      </div>
      <div class="composer-foot">
        <Leftover />
        {sendFault.value && <Notice kind="bad">{sendFault.value}</Notice>}
        <Button type="submit" icon={Sparkles} aria-busy={sending.value > 0}>{sending.value ? "Sending…" : "Make it"}<span class="send-hint" aria-hidden="true">Ctrl ↵</span></Button>
        <IconButton icon={CodeIcon} look="plain" label="Code for this request" onClick={() => setShowingCode(true)} />
      </div>
      {isShowingCode && <Code onClose={() => setShowingCode(false)} />}
    </form>
  );
}

function Adapters() {
  const { loras, controls } = draft.value;
  return (
    <More title="LoRAs and ControlNets" isNeeded={loras.length + controls.length > 0}>
      <Loras />
      <Controls />
    </More>
  );
}

/** A picture on the clipboard is one to start from. */
function paste(event: ClipboardEvent): void {
  const file = [...(event.clipboardData?.files ?? [])].find((each) => each.type.startsWith("image/"));
  if (!file || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  use(file, file.name).catch((error) => say(sentence(error)));
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
