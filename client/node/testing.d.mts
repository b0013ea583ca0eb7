export * from "./dist/testing.js";
