/** Version of this library, in step with that of the coordinator. */
export const VERSION = "0.1.0";
