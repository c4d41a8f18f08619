/** The view "Models". */
import { Boxes } from "lucide";
import { Empty } from "../components/empty";

export default function Models() {
  return <Empty icon={Boxes} title="Models">Not here yet.</Empty>;
}
