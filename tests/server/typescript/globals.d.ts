// All that the client needs of Node, so that its types need not be installed.
declare const process: { argv: string[] };
