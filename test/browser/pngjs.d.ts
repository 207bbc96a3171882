declare module "pngjs" {
  /** RGBA, row by row. */
  export class PNG {
    constructor(options: { width: number; height: number });
    readonly width: number;
    readonly height: number;
    readonly data: Buffer;
    static readonly sync: {
      read(file: Buffer): PNG;
      write(image: PNG, options?: { colorType?: number; deflateLevel?: number }): Buffer;
    };
  }
}
