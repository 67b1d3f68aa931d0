# SPDX-License-Identifier: Apache-2.0
"""``sprocketmq user`` and ``acl``: users and policies of RocketMQ 5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from sprocketmq.cli.frame.command_line import CommandGroup
from sprocketmq.cli.frame.output import Column, Output
from sprocketmq.cli.frame.target import Target
from sprocketmq.cli.frame.verbs import Change, Where, changes, deletes, on_brokers, place, reads
from sprocketmq.errors import ConfigurationError

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin
    from sprocketmq.wire.bodies import AclInfo, UserInfo

_ACTIONS: Final = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
_read_from = click.option("--broker", metavar="NAME", help="The broker to ask; default: the first by name.")
_password_file = click.option(
    "--password-file",
    type=click.File("r", encoding="utf-8"),
    help="A file whose first line is the password; - is stdin.",
)


def _one_broker(admin: Admin, broker: str | None) -> str:
    names = sorted(admin.cluster_info().broker_addr_table)
    if broker is None and not names:
        raise ConfigurationError("no broker is known to the name server; start one, or check --namesrv-addr")
    chosen = broker or names[0]
    if not admin.speaks_5x(chosen):
        raise ConfigurationError(
            f"broker {chosen} is older than RocketMQ 5 and has no users and policies; its accounts are in conf/plain_acl.yml"
        )
    return chosen


@click.group(cls=CommandGroup)
def user() -> None:
    """Manage the users of access control (5.x)."""


@user.command("list")
@_read_from
@reads
def list_users(target: Target, output: Output, broker: str | None) -> None:
    """List all users."""
    with target.admin() as admin:
        found = admin.users(_one_broker(admin, broker))
    output.rows(_USER, [_user_row(one) for one in found], empty="no users")


@user.command("show")
@click.argument("name", metavar="USER")
@_read_from
@reads
def show_user(target: Target, output: Output, name: str, broker: str | None) -> None:
    """Show one user and its policies."""
    with target.admin() as admin:
        asked = _one_broker(admin, broker)
        found = admin.user(asked, name)
        if found is None:
            raise ConfigurationError(f"broker {asked} knows no user {name!r}")
        policies = admin.acl(asked, f"User:{name}")
    record = {**_user_row(found), "policies": _entries([policies] if policies else [])}
    output.record(_USER, record, (("may", _ACL[1:], "policies"),))


def _user_row(one: UserInfo) -> dict[str, Any]:
    return {"user": one.username, "type": one.user_type, "status": one.user_status}


_USER: Final = (Column("user"), Column("type"), Column("status"))


@user.command("create")
@click.argument("name", metavar="USER")
@_password_file
@click.option("--super", "is_super", is_flag=True, help="Make it a super user, which may do everything.")
@on_brokers
@changes
def create_user(target: Target, change: Change, name: str, password_file: Any, is_super: bool, where: Where) -> None:
    """Create a user.

    Asks for the password unless --password-file is given.
    """
    password = _password(password_file)
    kind = "Super" if is_super else "Normal"
    with target.admin() as admin:
        _one_broker(admin, where["broker"])
        if not change.confirm(f"create {kind.lower()} user {name} at {place(where)}", user=name, type=kind):
            return
        admin.create_user(name, password, user_type=kind, **where)
    change.done(f"created {kind.lower()} user {name}", user=name, type=kind)


def _password(file: Any) -> str:
    """The password from a file or a prompt. There is no argument for it, because ps shows arguments to other users."""
    password: str
    if file is None:
        password = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = file.readline().rstrip("\r\n")
    if not password:
        raise ConfigurationError("the password is empty; it must be on the first line of the file")
    return password


@user.command("alter")
@click.argument("name", metavar="USER")
@_password_file
@click.option("--super/--normal", "is_super", default=None, help="Whether it is a super user, which may do everything.")
@click.option("--enable/--disable", "enable", default=None, help="Whether it may do anything at all.")
@on_brokers
@changes
def alter_user(
    target: Target,
    change: Change,
    name: str,
    password_file: Any,
    is_super: bool | None,
    enable: bool | None,
    where: Where,
) -> None:
    """Change a user.

    What no option names stays as it is.
    """
    wanted: dict[str, Any] = {
        "user_type": None if is_super is None else "Super" if is_super else "Normal",
        "user_status": None if enable is None else "enable" if enable else "disable",
    }
    changes_made = [f"{key.removeprefix('user_')} {value}" for key, value in wanted.items() if value]
    if password_file is not None:
        wanted["password"] = _password(password_file)
        changes_made.append("a new password")
    if not changes_made:
        raise ConfigurationError(
            "nothing to change is given; one of --password-file, --super, --normal, --enable and --disable is needed"
        )
    with target.admin() as admin:
        _one_broker(admin, where["broker"])
        if not change.confirm(f"change user {name}: {', '.join(changes_made)}", user=name):
            return
        admin.update_user(name, **where, **wanted)
    change.done(f"changed user {name}: {', '.join(changes_made)}", user=name)


@user.command("delete")
@click.argument("name", metavar="USER")
@on_brokers
@deletes
def delete_user(target: Target, change: Change, name: str, where: Where) -> None:
    """Delete a user."""
    with target.admin() as admin:
        asked = _one_broker(admin, where["broker"])
        if admin.user(asked, name) is None:
            raise ConfigurationError(f"broker {asked} knows no user {name!r}")
        if not change.confirm(f"delete user {name}", user=name):
            return
        admin.delete_user(name, **where)
    change.done(f"deleted user {name}", user=name)


@click.group(cls=CommandGroup)
def acl() -> None:
    """Manage policies: what users may do (5.x)."""


@acl.command("list")
@click.option("--user", "name", metavar="USER", help="Only users whose name contains this.")
@click.option("--resource", metavar="TEXT", help="Only resources whose name contains this.")
@_read_from
@reads
def list_acls(target: Target, output: Output, name: str | None, resource: str | None, broker: str | None) -> None:
    """List all policies."""
    with target.admin() as admin:
        found = admin.acls(_one_broker(admin, broker), name, resource)
    output.rows(_ACL, _entries(found), empty="no policies")


@acl.command("show")
@click.argument("name", metavar="USER")
@_read_from
@reads
def show_acl(target: Target, output: Output, name: str, broker: str | None) -> None:
    """Show the policies of one user."""
    with target.admin() as admin:
        found = admin.acl(_one_broker(admin, broker), f"User:{name.removeprefix('User:')}")
    output.rows(_ACL, _entries([found] if found else []), empty=f"user {name} has no policies")


def _entries(found: list[AclInfo]) -> list[dict[str, Any]]:
    return [
        {
            "subject": one.subject,
            "decision": entry.decision,
            "resource": entry.resource,
            "actions": entry.actions or [],
            "source_ips": entry.source_ips or [],
        }
        for one in found
        for policy in one.policies or []
        for entry in policy.entries or []
    ]


_ACL: Final = (
    Column("subject"),
    Column("decision"),
    Column("resource"),
    Column("actions"),
    Column("from", "source_ips"),
)


@acl.command("set")
@click.argument("name", metavar="USER")
@click.argument("decision", type=click.Choice(["allow", "deny"]))
@click.argument("actions", metavar="ACTION[,ACTION]...")
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCE...")
@click.option(
    "--from", "source_ips", multiple=True, metavar="ADDRESS", help="Only for requests from this address. Repeatable."
)
@on_brokers
@changes
def set_acl(
    target: Target,
    change: Change,
    name: str,
    decision: str,
    actions: str,
    resources: tuple[str, ...],
    source_ips: tuple[str, ...],
    where: Where,
) -> None:
    """Allow or deny a user some actions on resources.

    Examples of resources: Topic:orders, Topic:order*, Group:billing. Actions: Pub, Sub, Create, Update, Delete, Get, List, All.
    """
    subject = f"User:{name.removeprefix('User:')}"
    chosen = [_action(one) for one in actions.split(",")]
    sentence = f"{decision} {subject} {', '.join(chosen)} on {', '.join(resources)}"
    with target.admin() as admin:
        asked = _one_broker(admin, where["broker"])
        if not change.confirm(sentence, subject=subject, actions=chosen, resources=list(resources)):
            return
        found = admin.acl(asked, subject)
        known = {entry["resource"] for entry in _entries([found] if found else [])}
        for resource in resources:
            write = admin.update_acl if resource in known else admin.create_acl
            write(subject, [resource], chosen, decision.capitalize(), source_ips=source_ips, **where)
    change.done(f"set: {sentence}", subject=subject, actions=chosen, resources=list(resources))


def _action(text: str) -> str:
    for known in _ACTIONS:
        if known.lower() == text.strip().lower():
            return known
    raise ConfigurationError(f"an action is {text!r}; {', '.join(_ACTIONS)} are allowed")


@acl.command("delete")
@click.argument("name", metavar="USER")
@click.option(
    "--resource", metavar="RESOURCE", help="Only the policy for this resource; default: all policies of the user."
)
@on_brokers
@deletes
def delete_acl(target: Target, change: Change, name: str, resource: str | None, where: Where) -> None:
    """Delete policies of a user."""
    subject = f"User:{name.removeprefix('User:')}"
    what = f"the policy of {subject} for {resource}" if resource else f"all policies of {subject}"
    with target.admin() as admin:
        _one_broker(admin, where["broker"])
        if not change.confirm(f"delete {what}", subject=subject, resource=resource):
            return
        admin.delete_acl(subject, resource, **where)
    change.done(f"deleted {what}", subject=subject, resource=resource)
