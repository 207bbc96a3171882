#!/usr/bin/env python3
"""Runs one of cloud-init's own data sources against a metadata server and prints what it made of it, as JSON.

    drive.py openstack|ec2|aws|nocloud BASE_URL [--macs JSON] [--source ADDRESS]
    drive.py openstack-default INTERFACE [--macs JSON]   at the addresses that it asks by itself, in its own order
    drive.py network-config FILE [--macs JSON]      version 2 of the network configuration, as NoCloud gets it
    drive.py schema SCHEMA_FILE DOCUMENT_FILE       validates with python3-jsonschema
    drive.py rendered FILE [--macs JSON]            a network_data.json: for netplan, networkd and ifupdown
    drive.py yaml FILE                              reads each text of a JSON list as YAML
    drive.py network-data FILE [--macs JSON]        the same texts as network_data.json of a drive, each to netplan

--macs maps the MACs of the pretended guest to the names of its interfaces; --source binds connections to an address, for
servers that tell guests by it. Only these are patched in cloud-init: the check of the firmware's tables, the fixed
address of the EC2 walk, the list of interfaces, and the source address. Paths, retries, parsing and conversion are its own.

Needs the package cloud-init and what it depends on, unpacked (see fetch) or installed.
"""
import argparse
import atexit
import base64
import functools
import json
import logging
import shutil
import sys
import tempfile
import types


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    parser.add_argument("at", nargs="+")
    parser.add_argument("--macs", type=json.loads, default={})
    parser.add_argument("--source")
    args = parser.parse_args()
    if args.what == "schema":
        return validate(*args.at)
    if args.what == "yaml":
        return [read_yaml(text) for text in json_of(args.at[0])]
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    patch_machine(args)
    if args.what == "network-config":
        return {"netplan": netplan(load_yaml(args.at[0]))}
    if args.what == "rendered":
        return rendered(json_of(args.at[0]))
    if args.what == "network-data":
        return [network_data(text) for text in json_of(args.at[0])]
    return SOURCES[args.what](args.at[0])


def validate(schema_file, document_file):
    import jsonschema

    with open(schema_file) as schema, open(document_file) as document:
        validator = jsonschema.Draft7Validator(json.load(schema))
        return {"errors": [error.message for error in validator.iter_errors(json.load(document))]}


def patch_machine(args):
    from cloudinit import net
    from urllib3.util import connection

    net.get_interfaces_by_mac = lambda *_, **__: dict(args.macs)
    net.get_ib_hwaddrs_by_interface = lambda: {}
    if args.source:
        connect = connection.create_connection
        connection.create_connection = lambda *where, **how: connect(
            *where, **{**how, "source_address": (args.source, 0)}
        )


def new_source(cls, config):
    from cloudinit import helpers

    directory = tempfile.mkdtemp(prefix="holdfast-cloud-init-")
    atexit.register(shutil.rmtree, directory)
    paths = helpers.Paths({"cloud_dir": directory, "run_dir": directory, "templates_dir": directory})
    return cls({"datasource_list": [cls.dsname], "datasource": {cls.dsname: config}}, None, paths)


def openstack(base):
    from cloudinit.sources import DataSourceOpenStack as module
    from cloudinit.sources.helpers import openstack as helper

    module.detect_openstack = lambda *_, **__: True
    helper.ec2.get_instance_metadata = functools.partial(
        helper.ec2.get_instance_metadata, metadata_address=base
    )
    source = new_source(module.DataSourceOpenStack, {"metadata_urls": [base]})
    # What later ones ask for where they would look for it by themselves.
    source.distro = types.SimpleNamespace(fallback_interface=None)
    return {
        "found": source._get_data(),
        **common(source),
        "vendordata": source.vendordata_raw,
        "vendordata2": source.vendordata2_raw,
        "ec2": source.ec2_metadata,
        "netplan": netplan(source.network_config),
    }


def openstack_default(interface):
    from cloudinit.sources import DataSourceOpenStack as module

    module.detect_openstack = lambda *_, **__: True
    source = new_source(module.DataSourceOpenStack, {})
    source.distro = types.SimpleNamespace(fallback_interface=interface)
    found = source._get_data()
    return {"found": found, **common(source), "from": source.metadata_address, "version": version()}


def version():
    from cloudinit import version as module

    return module.version_string()


def ec2(base, platform=""):
    from cloudinit.sources import DataSourceEc2 as module

    data = {"uuid": "", "uuid_source": "dmi", "serial": "", "asset_tag": "", "vendor": "", "product_name": ""}
    if platform == "aws":
        data.update(uuid="ec2e1916-9099-7caf-fd21-012345abcdef", serial="ec2e1916-9099-7caf-fd21-012345abcdef")
    module._collect_platform_data = lambda: data
    source = new_source(module.DataSourceEc2, {"metadata_urls": [base], "strict_id": "false"})
    found = source._get_data()
    return {"found": found, **common(source), "identity": source.identity if found else None}


def nocloud(base):
    from cloudinit import dmi
    from cloudinit.sources import DataSourceNoCloud as module

    serial = "ds=nocloud;s=%s/nocloud/" % base
    dmi.read_dmi_data = lambda key: serial if key == "system-serial-number" else None
    module.util.get_cmdline = lambda: ""
    module.util.find_devs_with = lambda *_, **__: []
    # ds=nocloud alone is for the local stage; the class for the stage with network is the one that fetches.
    source = new_source(module.DataSourceNoCloudNet, {})
    return {"found": source._get_data(), **common(source), "vendordata": text(source.vendordata_raw)}


SOURCES = {
    "openstack": openstack,
    "openstack-default": openstack_default,
    "ec2": ec2,
    "aws": functools.partial(ec2, platform="aws"),
    "nocloud": nocloud,
}


def common(source):
    metadata = source.metadata or {}
    userdata = source.userdata_raw or b""
    if isinstance(userdata, str):
        userdata = userdata.encode()
    return {
        "instanceId": metadata.get("instance-id"),
        "hostname": metadata.get("local-hostname"),
        "keys": source.get_public_ssh_keys() if metadata else [],
        "userdata": base64.b64encode(userdata).decode(),
        "metadata": plain(metadata),
        "zone": source.availability_zone if metadata else None,
    }


def netplan(config):
    """What cloud-init would write for netplan, read back."""
    from cloudinit.net import netplan as renderer
    from cloudinit.net import network_state

    if config is None:
        return None
    state = network_state.parse_net_config_data(config)
    import yaml

    return yaml.safe_load(renderer.Renderer({})._render_content(state))


def rendered(document):
    """What cloud-init would write of one network_data.json, by the renderer."""
    from cloudinit.net import eni, network_state, networkd
    from cloudinit.sources.helpers import openstack

    config = openstack.convert_net_json(document)
    state = network_state.parse_net_config_data(config)
    return {
        "netplan": netplan(config),
        "networkd": networkd.Renderer({})._render_content(state),
        "eni": eni.Renderer()._render_interfaces(state),
    }


def load_yaml(file):
    from cloudinit import util

    with open(file) as config:
        return util.load_yaml(config.read(), default=None)


def json_of(file):
    with open(file) as document:
        return json.load(document)


def read_yaml(text):
    import yaml

    try:
        return yaml.safe_load(text)
    except Exception as error:
        return {"error": repr(error)}


def network_data(text):
    """What cloud-init makes of one network_data.json; a text of why it makes nothing of it."""
    from cloudinit.sources.helpers import openstack

    try:
        return netplan(openstack.convert_net_json(read_yaml(text)))
    except Exception as error:
        return repr(error)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def plain(value):
    """JSON knows no bytes."""
    return json.loads(json.dumps(value, default=lambda odd: base64.b64encode(odd).decode()))


print(json.dumps(main(), default=text))
