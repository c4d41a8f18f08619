/** A key that was made, shown this once. */
import { Copy } from "lucide";
import type { Schemas } from "../api/client";
import { Button } from "../components/button";
import { copy } from "../components/copy";
import { Dialog } from "../components/dialog";

export function NewKey({ made, onClose }: { made: Schemas["NewKeyView"]; onClose: () => void }) {
  return (
    <Dialog title={`A key of ${made.tenant}`} onClose={onClose}>
      <div class="dialog-body form">
        <p>Copy it now: it is not shown again, and nobody can look it up.</p>
        <output class="secret" aria-label="The key">{made.key}</output>
      </div>
      <footer class="dialog-foot">
        <Button look="plain" onClick={onClose}>I have it</Button>
        <Button icon={Copy} autofocus onClick={() => copy(made.key, "Key")}>Copy</Button>
      </footer>
    </Dialog>
  );
}
