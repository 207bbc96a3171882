"""Nova's own metadata handler on a free port of the loopback, over a database in memory; ends with its standard input.

nova-handler.py CONFIG INSTANCES: a nova.conf, and JSON [{uuid, project, hostname}]. Prints the port, and of each request
a line {headers} with their names as WSGI has them. Only Neutron's own API is replaced: it would be asked for the
instance's security groups.
"""
import json
import os
import sys
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

from nova import config, context, objects
from nova.api.metadata import handler
from nova.db.main import api as database
from nova.db.main import models
from nova.network import security_group_api


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def create(ctxt, uuid, project, hostname):
    flavor = objects.Flavor(
        ctxt, id=1, name="m1.small", flavorid="1", memory_mb=512, vcpus=1, root_gb=1, ephemeral_gb=0, swap=0,
        rxtx_factor=1.0, vcpu_weight=0, disabled=False, is_public=True, extra_specs={}, projects=[], description=None,
        created_at=None, updated_at=None, deleted_at=None, deleted=False)
    objects.Instance(
        ctxt, uuid=uuid, project_id=project, user_id="somebody", hostname=hostname, display_name=hostname, host="node-a",
        image_ref="", launch_index=0, flavor=flavor, old_flavor=None, new_flavor=None).create()
    # Without ports of Neutron's: the address that it shows is the one that the request names.
    database.instance_info_cache_update(ctxt, uuid, {"network_info": "[]"})


def main():
    config.parse_args(["nova-api-metadata", "--config-file", sys.argv[1]])
    objects.register_all()
    models.BASE.metadata.create_all(database.get_engine())
    security_group_api.get_instance_security_groups = lambda *_, **__: [{"name": "default"}]
    ctxt = context.get_admin_context()
    for one in json.loads(sys.argv[2]):
        create(ctxt, **one)
    answer = handler.MetadataRequestHandler()

    def recorded(environ, start_response):
        headers = {name: value for name, value in environ.items() if name.startswith("HTTP_")}
        print(json.dumps({"headers": headers}), flush=True)
        return answer(environ, start_response)

    server = make_server("127.0.0.1", 0, recorded, handler_class=Quiet)
    print(server.server_port, flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.serve_forever()


main()
