export const text = "hello";
