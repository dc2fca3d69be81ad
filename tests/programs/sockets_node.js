// SPDX-License-Identifier: BSD-2-Clause
// node sockets_node.js server|client PORT: connections that are ended in turn and anew, ten at a time. The client
// says "well" if each had its reply and its end, and nobody an error.
const net = require('net');
const [, , role, port] = process.argv;
const conns = 200, atOnce = 10, octets = 100000;

function serve() {
    net.createServer(s => {
        s.on('error', e => console.log('server', e.code, e.syscall));
        s.once('data', () => s.end(Buffer.alloc(octets)));
    }).listen(+port, '127.0.0.1');
}

let begun = 0, over = 0;

function next() {
    if (begun++ >= conns) {
        return;
    }
    let got = 0, ended = false;
    const s = net.connect(+port, '127.0.0.1', () => s.write('a'));
    s.on('data', d => { got += d.length; });
    s.on('end', () => { ended = true; });
    s.on('error', e => console.log('client', e.code, e.syscall));
    s.on('close', () => {
        if (got !== octets || !ended) {
            console.log('client', got, 'octets, end', ended);
            process.exit(1);
        }
        if (++over === conns) {
            console.log('well');
        }
        next();
    });
}

if (role === 'server') {
    serve();
} else {
    for (let i = 0; i < atOnce; i++) {
        next();
    }
}
