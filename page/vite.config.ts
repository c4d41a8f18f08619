import { defineConfig } from "vite";

/** Where `npm run dev` finds a running service. */
const SERVICE = process.env.ATELIER_URL ?? "http://127.0.0.1:8000";

export default defineConfig({
  base: "./", // the service may stand under a path of a proxy
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../api/page",
    emptyOutDir: true,
    target: ["chrome123", "firefox120", "safari17.5"], // the first with light-dark()
    assetsInlineLimit: 0, // everything by its name: the policy of the page takes no data: fonts
    modulePreload: { polyfill: false },
    license: { fileName: "assets/licenses.md" },
  },
  server: {
    proxy: { "/v1": SERVICE, "/files": SERVICE, "/docs": SERVICE, "/openapi.json": SERVICE },
  },
});
