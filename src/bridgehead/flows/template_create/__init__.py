"""The template-create flow (flows §11–§12): a template package made from a project that exists."""

from __future__ import annotations

from bridgehead.flows.template_create.workflow import (
    TemplateCreateOrchestrator,
    template_create,
)

__all__ = ["TemplateCreateOrchestrator", "template_create"]
