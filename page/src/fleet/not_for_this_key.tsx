/** What stands where the key of this tab may not look. */
import { Lock } from "lucide";
import { Empty } from "../components/empty";

export function NotForThisKey() {
  return (
    <Empty icon={Lock} title="This is for operators">
      The key of this tab has not the scope <code>operate</code>. Forget it in the header and give one that has.
    </Empty>
  );
}
