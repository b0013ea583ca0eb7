export * from "./dist/nestjs.js";
