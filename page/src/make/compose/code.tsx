/** Show the request of the form as a program. */
import { Copy } from "lucide";
import { useState } from "preact/hooks";
import { BASE } from "../../api/client";
import { key } from "../../api/key";
import { Button } from "../../components/button";
import { copy } from "../../components/copy";
import { Dialog } from "../../components/dialog";
import { Segments } from "../../components/segments";
import { asCurl, asPython } from "../state/code";
import { draft } from "../state/draft";

const WRITE = { curl: asCurl, python: asPython };

export function Code({ onClose }: { onClose: () => void }) {
  const [language, setLanguage] = useState<keyof typeof WRITE>("curl");
  const text = WRITE[language](draft.value, BASE, key.value !== "");
  return (
    <Dialog title="Code for this request" size="medium" onClose={onClose}>
      <div class="dialog-body code">
        <Segments label="Language" value={language} options={[["curl", "curl"], ["python", "Python"]]} onChange={setLanguage} />
        <pre tabIndex={0} aria-label="Code"><code>{text}</code></pre>
        {key.value && <p class="quiet small">Put your key into the variable ATELIER_API_KEY: it is not written here.</p>}
      </div>
      <footer class="dialog-foot"><Button icon={Copy} onClick={() => void copy(text, "Code")}>Copy</Button></footer>
    </Dialog>
  );
}
