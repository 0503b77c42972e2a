import { text } from "./text.js";

const show = (t) => { document.getElementById("out").textContent = t; };
show(text);
import.meta.hot?.accept("./text.js", (m) => show(m.text));
