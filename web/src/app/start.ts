// Starts the application on the page of a server (`iolens serve`).

import { embedded, show } from "../page";
import { watch } from "../theme";
import { Application, type Shell } from "./main";

show(() => {
  watch();
  new Application(embedded<Shell>(1));
});
