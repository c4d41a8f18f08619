/** Mount the page. */
import { render } from "preact";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/shell.css";
import { App } from "./shell/app";

render(<App />, document.getElementById("app")!);
