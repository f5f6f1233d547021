// The chapters' checks, in reading order. Each operates the figures and exercises of its chapter:
//   export default async function ({ page, hand, expect }) { … }
export const CHAPTERS = ["01-why", "02-steps", "03-axes", "04-affine", "05-backward", "06-blind", "07-time", "08-blocks", "09-play", "10-choose"];
