// A dialog in the middle of the page, and a drawer at its side.

import type { ReactNode } from "react";
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { t } from "../lib/i18n";
import { Button } from "./Button";

interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: ReactNode;
  /** The buttons. */
  footer?: ReactNode;
  width?: "small" | "medium" | "wide";
  /** An alert demands a decision: a click beside it does not close it. */
  isAlert?: boolean;
}

export function Dialog({ title, isOpen, onClose, children, footer, width = "medium", isAlert }: DialogProps) {
  return (
    <ModalOverlay
      className="ui-overlay"
      isOpen={isOpen}
      onOpenChange={(open) => !open && onClose()}
      isDismissable={!isAlert}
    >
      <Modal className={`ui-modal ${width}`}>
        <AriaDialog className="ui-dialog" role={isAlert ? "alertdialog" : "dialog"}>
          <div className="ui-dialog-head">
            <Heading slot="title" level={2}>
              {title}
            </Heading>
            <Button icon="close" label={t("ui.close")} tone="ghost" size="small" onPress={onClose} />
          </div>
          <div className="ui-dialog-body">{children}</div>
          {footer && <div className="ui-dialog-foot">{footer}</div>}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

export function Drawer({
  title,
  isOpen,
  onClose,
  children,
}: Pick<DialogProps, "title" | "isOpen" | "onClose" | "children">) {
  return (
    <ModalOverlay
      className="ui-drawer-overlay"
      isOpen={isOpen}
      onOpenChange={(open) => !open && onClose()}
      isDismissable
    >
      <Modal className="ui-drawer">
        <AriaDialog className="ui-dialog">
          <div className="ui-dialog-head">
            <Heading slot="title" level={2}>
              {title}
            </Heading>
            <Button icon="close" label={t("ui.close")} tone="ghost" size="small" onPress={onClose} />
          </div>
          <div className="ui-dialog-body">{children}</div>
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

interface ConfirmProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  onConfirm: () => void;
  confirmLabel: string;
  tone?: "primary" | "danger-solid";
  isPending?: boolean;
  isDisabled?: boolean;
  /** Why the action is not possible. */
  reason?: string | null;
  children: ReactNode;
  width?: DialogProps["width"];
}

/** A dialog with a button that acts and one that does not. */
export function Confirm(props: ConfirmProps) {
  return (
    <Dialog
      title={props.title}
      isOpen={props.isOpen}
      onClose={props.onClose}
      width={props.width ?? "small"}
      footer={
        <>
          <Button onPress={props.onClose}>{t("ui.cancel")}</Button>
          <Button
            tone={props.tone ?? "primary"}
            onPress={props.onConfirm}
            isPending={props.isPending}
            isDisabled={props.isDisabled}
            reason={props.reason}
          >
            {props.confirmLabel}
          </Button>
        </>
      }
    >
      {props.children}
    </Dialog>
  );
}
