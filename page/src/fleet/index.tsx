/** The view "Fleet". */
import { Server } from "lucide";
import { Empty } from "../components/empty";

export default function Fleet() {
  return <Empty icon={Server} title="Fleet">Not here yet.</Empty>;
}
