export * from "./dist/verrou.js";
