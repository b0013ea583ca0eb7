export * from "./dist/v1.js";
