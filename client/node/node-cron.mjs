export * from "./dist/node-cron.js";
